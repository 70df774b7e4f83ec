#pragma once
// Piece: a part of a model that may be computed apart from the others. A model that can be cut into
// stages of a pipeline has
//     std::vector<nn::Piece> pieces() const;
// in the order in which they are computed; its call operator runs the same list.

#include <soma/autograd/parameter.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/base/owned.hpp>
#include <soma/data/batch.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace soma::nn {

class Piece {
 public:
  // Piece `index` of a model that outlives it.
  using Run = Var (*)(const void* model, std::size_t index, Tape& tape, const Var& x,
                      const data::Batch& batch);
  Piece(std::string piece_name, Parameters own, Run run_piece, const void* model, std::size_t index)
      : name(std::move(piece_name)),
        parameters(std::move(own)),
        run_(run_piece),
        model_(model),
        index_(index) {}
  // function(tape, x, batch) -> Var. Of the first piece x is not defined: it reads the batch. One
  // variable goes from each piece to the next; its first dimension counts the rows of the batch or
  // its sequences, and the others are the same for every batch. Of a batch without sequences it
  // has no rows. What the function refers to outlives the piece.
  template <class Function>
  Piece(std::string piece_name, Parameters own, Function function, bool mixes = false)
      : name(std::move(piece_name)),
        parameters(std::move(own)),
        mixes_sequences(mixes),
        body_(Owned<Body>::template make<Holder<Function>>(std::move(function))) {}

  Var run(Tape& tape, const Var& x, const data::Batch& batch) const {
    return body_ ? body_->run(tape, x, batch) : run_(model_, index_, tape, x, batch);
  }

  std::string name;       // in its model: "layer.3"
  Parameters parameters;  // named as the model's task names them
  // In training its result for one sequence depends on others of the batch, as batch norm does:
  // then a batch cannot be computed in parts.
  bool mixes_sequences = false;

 private:
  struct Body {
    virtual ~Body() = default;
    virtual Var run(Tape& tape, const Var& x, const data::Batch& batch) = 0;
  };
  template <class Function>
  struct Holder final : Body {
    explicit Holder(Function f) : function(std::move(f)) {}
    Var run(Tape& tape, const Var& x, const data::Batch& batch) override {
      return function(tape, x, batch);
    }
    Function function;
  };
  Owned<Body> body_;
  Run run_ = nullptr;
  const void* model_ = nullptr;
  std::size_t index_ = 0;
};

using Pieces = std::vector<Piece>;

}  // namespace soma::nn
