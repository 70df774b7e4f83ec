#pragma once
// The members of TrainerBase that save a run, and that resume a saved run.

#include <soma/state/operators.hpp>
#include <soma/train/evaluations.hpp>
#include <soma/train/identity.hpp>
#include <soma/train/trainer_base.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#ifndef SOMA_DISPATCH
#include <soma/train/impl/checkpoints.ipp>
#endif
