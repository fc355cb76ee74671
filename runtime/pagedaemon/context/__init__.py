"""What the model sees in this step: the window, its paging, the compiled prompt."""
