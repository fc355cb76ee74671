"""What the agent keeps: core memory blocks, recall, archival; and the effects that change them."""
