// Writes reviews of the project's own generator, one on each line: text<TAB>label.
//
//   write_reviews COUNT [held_out]
//
// They are a function of COUNT and of the split; no label is wrong.

#include "bert_classifier/train/reviews.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

int main(int count, char** arguments) {
  if (count < 2 || count > 3 || (count == 3 && arguments[2] != std::string_view("held_out"))) {
    std::fputs("usage: write_reviews COUNT [held_out]\n", stderr);
    return 2;
  }
  const auto split = count == 3 ? reviews::Split::held_out : reviews::Split::train;
  for (const reviews::Review& review :
       reviews::generate(std::strtoul(arguments[1], nullptr, 10), 1, split, 0))
    std::printf("%s\t%d\n", review.text.c_str(), review.label);
  return std::fflush(stdout) == 0 ? 0 : 1;
}
