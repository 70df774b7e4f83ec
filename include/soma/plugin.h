/* What a shared library with operators for soma is written against: plain C, and nothing of soma in
 * it, so compiler, language and options of the library are its own affair.
 *
 * The library exports one symbol, `soma_plugin` (everything else may be hidden):
 *
 *     static int add(const soma_registrar* registrar) { return registrar->add(registrar, &mine); }
 *     const soma_plugin_info soma_plugin = {SOMA_PLUGIN_VERSION, sizeof(soma_plugin_info), add};
 *
 * and a program takes its operators with soma::load_operators(context, "./libmine.so")
 * (soma/plugin.hpp). Functions return 0, or another number after writing a reason to the call's
 * message. They throw nothing, keep no pointer that a call gave them, and may be called from
 * several threads at once.
 */
#ifndef SOMA_PLUGIN_H
#define SOMA_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define SOMA_PLUGIN_VERSION 1u
#define SOMA_PLUGIN_MAX_RANK 8

#if defined(__GNUC__)
#define SOMA_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define SOMA_PLUGIN_EXPORT
#endif

/* In C++ a function that may throw does not fit. */
#ifdef __cplusplus
#define SOMA_PLUGIN_NOEXCEPT noexcept
extern "C" {
#else
#define SOMA_PLUGIN_NOEXCEPT
#endif

/* Types of elements; the numbers never change. */
enum soma_dtype {
  SOMA_FP32 = 0,
  SOMA_TF32 = 1,
  SOMA_FP16 = 2,
  SOMA_BF16 = 3,
  SOMA_FP8_E3M4 = 4,
  SOMA_FP8_E4M3 = 5,
  SOMA_FP8_E5M2 = 6,
  SOMA_FP8_E4M3FN = 7,
  SOMA_FP8_E4M3FNUZ = 8,
  SOMA_FP8_E5M2FNUZ = 9,
  SOMA_E8M0 = 10,
  SOMA_INT8 = 11,
  SOMA_UINT8 = 12,
  SOMA_INT32 = 13,
  SOMA_INT64 = 14,
  SOMA_BOOL = 15
};

typedef struct soma_tensor {
  void* data;    /* the first element; NULL: left out, not kept, or not wanted */
  int32_t dtype; /* enum soma_dtype */
  int32_t rank;  /* 0 to SOMA_PLUGIN_MAX_RANK */
  uint64_t sizes[SOMA_PLUGIN_MAX_RANK];
  uint64_t strides[SOMA_PLUGIN_MAX_RANK]; /* in elements */
} soma_tensor;

typedef struct soma_call soma_call;
struct soma_call {
  const void* attributes; /* soma_operator.attribute_bytes of them, aligned for any type */
  const soma_tensor* inputs;
  size_t input_count;
  /* A shape rule sets dtype, rank and sizes; a host function writes all elements; a gradient reads
     what the operator keeps. */
  soma_tensor* outputs;
  size_t output_count;
  /* Of a gradient: d(loss)/d(output), data NULL where it is zero; and the zeros that it adds
     d(loss)/d(input) to, data NULL where that is not wanted. */
  const soma_tensor* output_gradients;
  soma_tensor* input_gradients;
  /* Why a function does not return 0: text that ends with a zero byte. */
  char* message;
  size_t message_bytes;
  /* Calls task(argument, 0) ... task(argument, tasks - 1) on the host's threads, in any order.
     Returns 0, or another number if the host could not. */
  int (*parallel)(const soma_call* call, int tasks,
                  void (*task)(void* argument, int index) SOMA_PLUGIN_NOEXCEPT,
                  void* argument) SOMA_PLUGIN_NOEXCEPT;
  void* host; /* for parallel */
};

typedef int (*soma_function)(const soma_call* call) SOMA_PLUGIN_NOEXCEPT;

/* Flags. Without it floating tensors are given as fp32 and all without gaps, and results are
   rounded to the type that the shape rule says. */
#define SOMA_AS_GIVEN 1u

typedef struct soma_operator {
  size_t struct_bytes; /* sizeof(soma_operator) */
  const char* name;    /* "namespace::name" */
  uint32_t min_inputs, max_inputs, outputs;
  uint32_t keeps_inputs, keeps_outputs; /* what the gradient reads: bit i is input, or output, i */
  uint32_t flags;
  size_t attribute_bytes;         /* of a call's attributes, at most 96; 0: it has none */
  const void* default_attributes; /* of a call that gives none; NULL: it has to */
  soma_function shape, host;
  soma_function gradient; /* NULL: it has none */
} soma_operator;

typedef struct soma_registrar soma_registrar;
struct soma_registrar {
  size_t struct_bytes;
  uint32_t version; /* SOMA_PLUGIN_VERSION of the host */
  /* Copies the record. Returns 0, or another number if it is refused: then all are. */
  int (*add)(const soma_registrar* registrar, const soma_operator* op) SOMA_PLUGIN_NOEXCEPT;
  void* host;
};

typedef struct soma_plugin_info {
  uint32_t version;      /* SOMA_PLUGIN_VERSION */
  uint32_t struct_bytes; /* sizeof(soma_plugin_info) */
  int (*add_operators)(const soma_registrar* registrar) SOMA_PLUGIN_NOEXCEPT;
} soma_plugin_info;

/* Defined by the library. */
extern SOMA_PLUGIN_EXPORT const soma_plugin_info soma_plugin;

#ifdef __cplusplus
}
#endif

#endif
