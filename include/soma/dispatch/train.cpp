// soma::dispatch: the trainer and ranks.
