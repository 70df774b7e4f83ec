// The headers behind component text, in a unit of their own.
#include <soma/text.hpp>

std::size_t pieces_of_a();
std::size_t pieces_of_a() {
  return soma::text::train_vocabulary(std::vector<std::string>{"a"}).size();
}
