// The compiled half of soma::io.
