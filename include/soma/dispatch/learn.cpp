// soma::dispatch: tapes, layers, optimizers, models.
