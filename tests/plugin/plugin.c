/* The libraries of plugin_test.cpp: one for each VARIANT. All is hidden but soma_plugin. */
#include <soma/plugin.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GOOD 0
#define OLD_VERSION 1
#define SHORT_INFO 2
#define NO_ADD 3
#define NULL_RECORD 4
#define SHORT_RECORD 5
#define NO_NAME 6
#define NO_HOST 7
#define MANY_INPUTS 8
#define BARE_NAME 9
#define GIVES_UP 10
#define NO_SYMBOL 11
#define UNKNOWN_FLAGS 12
#define SAME_NAME_TWICE 13
#define LINKED 14

typedef struct {
  float factor;
} scale_attributes;

static uint64_t elements(const soma_tensor* tensor) {
  uint64_t count = 1;
  for (int i = 0; i < tensor->rank; ++i) count *= tensor->sizes[i];
  return count;
}

/* y = factor x, and the factor as a note for the gradient. Negative factors are refused. */
static int scale_shape(const soma_call* call) {
  const scale_attributes* attributes = call->attributes;
  if (attributes->factor < 0) {
    snprintf(call->message, call->message_bytes, "factor %g\nis negative",
             (double)attributes->factor);
    return 2;
  }
  call->outputs[0] = call->inputs[0];
  call->outputs[1].dtype = SOMA_FP32;
  call->outputs[1].rank = 0;
  return 0;
}

struct work {
  const float* x;
  float* y;
  float factor;
  uint64_t count;
};
static void scale_part(void* argument, int index) {
  const struct work* work = argument;
  for (uint64_t i = (uint64_t)index; i < work->count; i += 3)
    work->y[i] = work->factor * work->x[i];
}
static int scale_host(const soma_call* call) {
  const scale_attributes* attributes = call->attributes;
  struct work work = {call->inputs[0].data, call->outputs[0].data, attributes->factor,
                      elements(&call->inputs[0])};
  *(float*)call->outputs[1].data = attributes->factor;
  return call->parallel(call, 3, scale_part, &work);
}
static int scale_gradient(const soma_call* call) {
  const float factor = *(const float*)call->outputs[1].data;
  const float* dy = call->output_gradients[0].data;
  float* dx = call->input_gradients[0].data;
  if (dy == NULL || dx == NULL) return 0;
  for (uint64_t i = 0; i < elements(&call->inputs[0]); ++i) dx[i] += factor * dy[i];
  return 0;
}

/* Reads codes of one byte through whatever strides there are. */
static int bytes_shape(const soma_call* call) {
  if (call->inputs[0].dtype != SOMA_UINT8) return 1;
  call->outputs[0] = call->inputs[0];
  return 0;
}
static int bytes_host(const soma_call* call) {
  const soma_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  for (uint64_t i = 0; i < x->sizes[0]; ++i)
    ((uint8_t*)y->data)[i * y->strides[0]] =
        (uint8_t)(255 - ((const uint8_t*)x->data)[i * x->strides[0]]);
  return 0;
}

static int no_rank(const soma_call* call) {
  (void)call;
  return 0;
}
static int bad_rank(const soma_call* call) {
  call->outputs[0].rank = 99;
  return 0;
}

static int add(const soma_registrar* registrar) {
  static const scale_attributes twice = {2};
  soma_operator scale;
  memset(&scale, 0, sizeof scale);
  scale.struct_bytes = sizeof scale;
  scale.name = "plug::scale";
  scale.min_inputs = scale.max_inputs = 1;
  scale.outputs = 2;
  scale.keeps_outputs = 2;
  scale.attribute_bytes = sizeof(scale_attributes);
  scale.default_attributes = &twice;
  scale.shape = scale_shape;
  scale.host = scale_host;
  scale.gradient = scale_gradient;
  if (registrar->struct_bytes < sizeof(soma_registrar)) return 3;
  if (registrar->add(registrar, &scale) != 0) return 4;

  soma_operator second = scale;
  second.name = "plug::invert";
  second.outputs = 1;
  second.flags = SOMA_AS_GIVEN;
  second.attribute_bytes = 0;
  second.default_attributes = NULL;
  second.shape = bytes_shape;
  second.host = bytes_host;
  second.gradient = NULL;
  switch (VARIANT) {
    case NULL_RECORD:
      registrar->add(registrar, NULL);
      return 0; /* says nothing itself: the host noticed */
    case SHORT_RECORD:
      second.struct_bytes = 8;
      break;
    case NO_NAME:
      second.name = NULL;
      break;
    case NO_HOST:
      second.host = NULL;
      break;
    case MANY_INPUTS:
      second.max_inputs = 1000;
      break;
    case BARE_NAME:
      second.name = "invert";
      break;
    case GIVES_UP:
      return 7;
    case UNKNOWN_FLAGS:
      second.flags = 64;
      break;
    case SAME_NAME_TWICE:
      second.name = "plug::scale";
      break;
  }
  if (registrar->add(registrar, &second) != 0) return 5;
  second.name = "plug::no_rank";
  second.shape = no_rank;
  if (registrar->add(registrar, &second) != 0) return 6;
  second.name = "plug::bad_rank";
  second.shape = bad_rank;
  return registrar->add(registrar, &second);
}

#if VARIANT == LINKED /* with the good one, and has no soma_plugin of its own */
SOMA_PLUGIN_EXPORT const void* something_else(void);
const void* something_else(void) { return &soma_plugin; }
int (*unused(void))(const soma_registrar*);
int (*unused(void))(const soma_registrar*) { return add; }
#elif VARIANT == NO_SYMBOL
SOMA_PLUGIN_EXPORT int something_else = 1;
int (*unused(void))(const soma_registrar*);
int (*unused(void))(const soma_registrar*) { return add; }
#else
const soma_plugin_info soma_plugin = {
    VARIANT == OLD_VERSION ? 0u : SOMA_PLUGIN_VERSION,
    VARIANT == SHORT_INFO ? 4u : (uint32_t)sizeof(soma_plugin_info),
    VARIANT == NO_ADD ? NULL : add};
#endif
