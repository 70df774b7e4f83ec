// soma::dispatch: the checks of operators.
