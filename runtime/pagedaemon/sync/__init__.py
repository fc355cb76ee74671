"""The blocking door: the async handles, for programs that do not await. One loop thread per
runtime, and one-line delegates to it."""
