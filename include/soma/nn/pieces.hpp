#pragma once
// Piece: a part of a model that can run apart from the other parts. A model that can be cut into
// the stages of a pipeline has
//     std::vector<nn::Piece> pieces() const;
// in the order of computation; its call operator runs the same list.

#include <soma/autograd/parameter.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/base/owned.hpp>
#include <soma/data/batch.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

class Piece {
 public:
  // Piece `index` of a model, which must outlive the piece.
  using Run = Var (*)(const void* model, std::size_t index, Tape& tape, const Var& x,
                      const data::Batch& batch);
  Piece(std::string piece_name, Parameters own, Run run_piece, const void* model,
        std::size_t index);
  // function(tape, x, batch) -> Var. The first piece gets an undefined x: it reads the batch. One
  // variable goes from each piece to the next. Its first dimension counts the rows of the batch or
  // its sequences; its other dimensions are the same for every batch. For a batch without sequences
  // it has no rows. Objects that the function refers to must outlive the piece.
  template <class Function>
  Piece(std::string piece_name, Parameters own, Function function, bool mixes = false)
      : name(std::move(piece_name)),
        parameters(std::move(own)),
        mixes_sequences(mixes),
        body_(Owned<Body>::template make<Holder<Function>>(std::move(function))) {}

  Var run(Tape& tape, const Var& x, const data::Batch& batch) const;

  std::string name;       // in the model: "layer.3"
  Parameters parameters;  // with the names of the model's task
  // Parameters of earlier pieces that this piece uses, too, such as a table of tokens that is the
  // head's weight. A cut may come between: each stage has a copy, and the last one trains it
  // (train/pipeline/shared.hpp). An earlier stage may use it once.
  Parameters shared{};
  // True if in training the result for one sequence depends on other sequences of the batch, as in
  // batch norm. Then a batch cannot be computed in parts.
  bool mixes_sequences = false;

 private:
  struct Body {
    SOMA_INLINE virtual ~Body() = default;
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

// The result of a model for a batch. A model that can be called with (tape, batch), for the fields
// of the batch, gets it; any other is called with (tape, inputs).
template <class Model>
Var call_model(const Model& model, Tape& tape, const data::Batch& batch) {
  if constexpr (requires { model(tape, batch); })
    return model(tape, batch);
  else
    return model(tape, tape.constant(batch.inputs));
}

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/pieces.ipp>
#endif
