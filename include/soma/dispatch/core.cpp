// soma::dispatch: tensors, contexts, numbers, data, files that need no other library.
