"""Times as people name them, and what was said then.

`names` finds what a day or a stretch of days is called, `spans` tells which days these are,
`spoken` reads what is said around it, and `then` finds the messages of that time.
"""
