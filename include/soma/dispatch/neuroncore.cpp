// soma::dispatch: the model of the accelerator's core, its clock and its device.
