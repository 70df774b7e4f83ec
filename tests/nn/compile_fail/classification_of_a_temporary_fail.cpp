// Must not compile: the task would keep a model that is gone. The message has to contain
//   deleted
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include <cstddef>

int main() {
  auto context = soma::make_context();
  const std::size_t sizes[] = {2, 8, 3};
  const soma::nn::ClassificationTask task(soma::models::Mlp({context}, sizes), 3);
  return static_cast<int>(task.parameters().size());
}
