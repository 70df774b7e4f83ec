#pragma once
// The functions of pieces.hpp.

#include <soma/nn/pieces.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/base/owned.hpp>
#include <soma/data/batch.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Piece::Piece(std::string piece_name, Parameters own, Run run_piece, const void* model,
                         std::size_t index)
    : name(std::move(piece_name)),
      parameters(std::move(own)),
      run_(run_piece),
      model_(model),
      index_(index) {}

SOMA_INLINE Var Piece::run(Tape& tape, const Var& x, const data::Batch& batch) const {
  return body_ ? body_->run(tape, x, batch) : run_(model_, index_, tape, x, batch);
}

}  // namespace SOMA_NAMESPACE::nn
