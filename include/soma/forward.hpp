#pragma once
// Declares the classes that programs hold, for headers of a program that only name them. A program
// cannot declare them by itself, because they stand in an inline namespace (base/config.hpp).

#include <soma/base/config.hpp>

namespace SOMA_NAMESPACE {

class Context;
struct ContextOptions;
struct Executor;
class MemoryResource;
class StopFlag;
class Error;

class Shape;
class Tensor;
class Sequences;
class StateDict;

class Tape;
class Var;
struct Parameter;
struct Gradient;
struct Operator;
class OperatorRegistry;
class Communicator;
class NeuronCoreDevice;

namespace data {
struct Batch;
class BatchSource;
}  // namespace data
namespace nn {
struct Scope;
class Linear;
class PrecisionState;
class Sequential;
class Task;
}  // namespace nn
namespace optim {
class AdamW;
class Optimizer;
struct Schedule;
}  // namespace optim
namespace models {
class BertClassifier;
struct BertConfig;
class BertModel;
class ConvNet;
class ExtremeClassifier;
class FastClassifier;
class Mlp;
class TextClassifier;
}  // namespace models
namespace text {
class Tokenizer;
}  // namespace text
namespace train {
struct Report;
class TrainerBase;
struct TrainerOptions;
}  // namespace train
namespace neuroncore {
class Core;
struct Machine;
}  // namespace neuroncore

}  // namespace SOMA_NAMESPACE
