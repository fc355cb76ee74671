"""What a user holds: spaces, agents, conversations, blocks, recall, archive. Each is a thin, async
handle over the store; nothing is cached in it but what it showed last."""
