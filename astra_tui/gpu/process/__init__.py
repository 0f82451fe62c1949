"""The process that holds a CUDA context. It gets cubins and numbers, and gives bytes and times."""
