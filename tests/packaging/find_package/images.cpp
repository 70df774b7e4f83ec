// The header behind component images, in a unit of its own: both libraries are linked.
#include <soma/images.hpp>

soma::Tensor image_of(soma::Context& context, const char* path);
soma::Tensor image_of(soma::Context& context, const char* path) {
  return soma::load_image(context, path);
}
