// The compiled half of soma::models.
