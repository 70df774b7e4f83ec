// The compiled half of soma::text.
