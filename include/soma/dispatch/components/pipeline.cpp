// The compiled half of soma::io: trainings in stages.
