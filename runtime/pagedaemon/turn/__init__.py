"""One turn in progress: its state in memory, the reply it reads, the calls it runs, the step it
finishes.

`pagedaemon.loop` tells the story; here is what each of its sentences does.
"""
