#pragma once
// Trainings of models that are cut into stages: PipelineTrainer. Beside train.hpp, which it
// includes, it needs nlohmann-json. Transports are soma/mpi.hpp and soma/parallel/in_process.hpp.

#include <soma/nn/later.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/parallel/plan.hpp>
#include <soma/parallel/schedule.hpp>
#include <soma/train.hpp>
#include <soma/train/pipeline.hpp>
