#pragma once
// The trainer and its surroundings: Trainer, sources of batches (in memory, by tokens),
// checkpoints, reports. soma.hpp does not include it, so that units that only compute, or hold a
// model, need not pay for it. Two headers that need threads or streams are apart:
// soma/data/prefetch.hpp and soma/train/console_progress.hpp.

#include <soma/base/record.hpp>
#include <soma/data/array_source.hpp>
#include <soma/data/token_source.hpp>
#include <soma/nn/number_tasks.hpp>
#include <soma/state/arithmetic.hpp>
#include <soma/state/checkpoint.hpp>
#include <soma/train/report.hpp>
#include <soma/train/trainer.hpp>
