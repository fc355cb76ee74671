"""What the model may call: the toolbox, schemas from Python functions, the memory tools."""
