"""Gateways to models: one protocol, one module per way of reaching a model."""
