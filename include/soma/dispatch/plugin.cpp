// soma::dispatch: operators from shared libraries, and the processors that run some of them.
