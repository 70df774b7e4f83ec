#pragma once
// Layers, functions, losses and optimizers beyond those of api.hpp. Opt-in beside soma.hpp, so that
// other units need not parse it.
//
//   #include <soma/nn.hpp>
//   #include <soma/soma.hpp>

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/ctc.hpp>
#include <soma/autograd/image_functions.hpp>
#include <soma/autograd/losses.hpp>
#include <soma/autograd/sequence_functions.hpp>
#include <soma/interface.hpp>
#include <soma/nn/batch_norm.hpp>
#include <soma/nn/cells.hpp>
#include <soma/nn/convolutions.hpp>
#include <soma/nn/elementwise.hpp>
#include <soma/nn/freeze.hpp>
#include <soma/nn/images.hpp>
#include <soma/nn/lora.hpp>
#include <soma/nn/norms.hpp>
#include <soma/nn/positions.hpp>
#include <soma/nn/recurrent.hpp>
#include <soma/nn/sequential.hpp>
#include <soma/nn/transformer_decoder.hpp>
#include <soma/nn/weight_norm.hpp>
#include <soma/optim/adadelta.hpp>
#include <soma/optim/adafactor.hpp>
#include <soma/optim/adam.hpp>
#include <soma/optim/radam.hpp>
#include <soma/optim/rmsprop.hpp>
