/* An operator in a shared library, in C: y = limit tanh(x / limit) keeps scores within a limit.
   The library is built against soma/plugin.h alone and exports one symbol. */
#include <soma/plugin.h>

#include <math.h>

typedef struct {
  float limit;
} attributes;

static uint64_t elements(const soma_tensor* tensor) {
  uint64_t count = 1;
  for (int i = 0; i < tensor->rank; ++i) count *= tensor->sizes[i];
  return count;
}

static int shape(const soma_call* call) {
  call->outputs[0] = call->inputs[0];
  return 0;
}

static int host(const soma_call* call) {
  const float limit = ((const attributes*)call->attributes)->limit;
  const float* x = call->inputs[0].data;
  float* y = call->outputs[0].data;
  for (uint64_t i = 0; i < elements(call->inputs); ++i) y[i] = limit * tanhf(x[i] / limit);
  return 0;
}

/* From y alone: dx = dy (1 - (y / limit)^2). */
static int gradient(const soma_call* call) {
  const float limit = ((const attributes*)call->attributes)->limit;
  const float *y = call->outputs[0].data, *dy = call->output_gradients[0].data;
  float* dx = call->input_gradients[0].data;
  for (uint64_t i = 0; i < elements(call->outputs); ++i)
    dx[i] += dy[i] * (1 - y[i] / limit * (y[i] / limit));
  return 0;
}

static int add(const soma_registrar* registrar) {
  static const attributes defaults = {10};
  const soma_operator soft_limit = {.struct_bytes = sizeof soft_limit,
                                    .name = "example::soft_limit",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .outputs = 1,
                                    .keeps_outputs = 1,
                                    .attribute_bytes = sizeof(attributes),
                                    .default_attributes = &defaults,
                                    .shape = shape,
                                    .host = host,
                                    .gradient = gradient};
  return registrar->add(registrar, &soft_limit);
}

const soma_plugin_info soma_plugin = {SOMA_PLUGIN_VERSION, sizeof(soma_plugin_info), add};
