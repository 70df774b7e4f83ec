#pragma once
// PipelineTrainer: trains models that are cut into stages. Needs nlohmann-json. Includes train.hpp.
// Transports are soma/mpi.hpp and soma/parallel/in_process.hpp.

#include <soma/nn/later.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/parallel/plan.hpp>
#include <soma/parallel/schedule.hpp>
#include <soma/train.hpp>
#include <soma/train/pipeline.hpp>
#include <soma/train/plan.hpp>
