// The compiled half of soma::io: trainings in stages.

#include <soma/train/impl/pipeline.ipp>
#include <soma/train/impl/plan.ipp>
#include <soma/train/pipeline/impl/begin.ipp>
#include <soma/train/pipeline/impl/evaluate.ipp>
#include <soma/train/pipeline/impl/gradients.ipp>
#include <soma/train/pipeline/impl/plan_costs.ipp>
#include <soma/train/pipeline/impl/planner.ipp>
#include <soma/train/pipeline/impl/profiler.ipp>
#include <soma/train/pipeline/impl/report.ipp>
#include <soma/train/pipeline/impl/shared.ipp>
