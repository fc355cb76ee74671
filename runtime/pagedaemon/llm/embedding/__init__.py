"""Embedders: one protocol, one module per way of turning texts into vectors, and the way texts are
cut before it."""
