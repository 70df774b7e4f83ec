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

#define SOMA_PLUGIN_VERSION 2u
#define SOMA_PLUGIN_OLDEST 1u /* hosts take libraries from this version on */
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
  SOMA_BOOL = 15,
  SOMA_INT16 = 16,  /* since version 2 */
  SOMA_UINT16 = 17, /* a host without this type and the next refuses them */
  SOMA_UINT32 = 18
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

/* ---- Kernels of the accelerator's processors (since version 2)

   The eight GPSIMD processors of a NeuronCore run a kernel once each. What a processor can do beside
   arithmetic is a table of services, so that the host can keep the hardware's limits, see what two
   processors touch, and count. Services return 0 or a pointer; another number or NULL says that the
   host has noted what went wrong: the kernel then ends as soon as it can. */

enum soma_parameter {
  SOMA_PARAMETER_TENSOR = 0,
  SOMA_PARAMETER_SCALAR = 1, /* a double, as soma_kernel_call.scalars has it */
  SOMA_PARAMETER_DOUBLE = 2,
  SOMA_PARAMETER_INT64 = 3 /* the 8 bytes are an int64_t */
};

/* What may happen to a tensor while a stream is open on it. */
enum soma_coherence {
  SOMA_COHERENT = 0,           /* what may be incoherent is an error */
  SOMA_INCOHERENT_VERBOSE = 1, /* a line in the log */
  SOMA_INCOHERENT_QUIET = 2
};

/* A tensor as a kernel sees it: row-major, without gaps. */
typedef struct soma_processor_tensor {
  void* data; /* NULL: a shape function's, which has no elements */
  int32_t dtype, rank;
  int64_t sizes[SOMA_PLUGIN_MAX_RANK];
  int64_t elements;
  uint64_t references;   /* counted by the library, which calls release() when the last one ends */
  int32_t coherence;     /* enum soma_coherence, set by the library */
  uint32_t open_streams; /* kept by the host */
  /* What a library does for each element that it gives out by reference: it checks the index
     (bad_index), open_streams (incoherent), counts, and where `written` is not NULL and the
     reference can be written through sets the element's byte to 1. */
  uint64_t element_accesses;
  unsigned char* written;
  void* host;
} soma_processor_tensor;

/* Elements one after the other, through a buffer of the processor. */
typedef struct soma_processor_stream {
  unsigned char *next, *end; /* of the buffer; where they meet the library calls advance() */
  void* host;
} soma_processor_stream;

/* A tensor or a number. */
typedef struct soma_processor_operand {
  soma_processor_tensor* tensor; /* NULL: a number */
  double number;
  int64_t integer; /* the number, where is_integer */
  int32_t is_integer;
} soma_processor_operand;

enum soma_processor_function {
  SOMA_PROCESSOR_ABS,
  SOMA_PROCESSOR_CEIL,
  SOMA_PROCESSOR_FLOOR,
  SOMA_PROCESSOR_SIN,
  SOMA_PROCESSOR_COS,
  SOMA_PROCESSOR_TAN,
  SOMA_PROCESSOR_LOG,
  SOMA_PROCESSOR_LOG2,
  SOMA_PROCESSOR_LOG10,
  SOMA_PROCESSOR_EXP,
  SOMA_PROCESSOR_BITWISE_NOT,
  SOMA_PROCESSOR_POW, /* a ^ b */
  SOMA_PROCESSOR_ADD, /* a + c b */
  SOMA_PROCESSOR_SUB, /* a - c b */
  SOMA_PROCESSOR_MUL,
  SOMA_PROCESSOR_DIV,
  SOMA_PROCESSOR_BITWISE_AND,
  SOMA_PROCESSOR_BITWISE_OR,
  SOMA_PROCESSOR_CLAMP /* a into [b, c] */
};

typedef struct soma_processor soma_processor;

typedef struct soma_processor_services {
  size_t struct_bytes;
  /* A tensor with one reference, filled with not-a-number patterns; and its end. */
  soma_processor_tensor* (*make)(soma_processor*, int32_t dtype, int32_t rank,
                                 const int64_t* sizes)SOMA_PLUGIN_NOEXCEPT;
  void (*release)(soma_processor*, soma_processor_tensor*) SOMA_PLUGIN_NOEXCEPT;
  int (*fill)(soma_processor*, soma_processor_tensor*,
              const soma_processor_operand* value) SOMA_PLUGIN_NOEXCEPT;
  /* Element by element. result NULL: one is made. Returns it with one more reference. */
  soma_processor_tensor* (*apply)(soma_processor*, int32_t function, soma_processor_tensor* result,
                                  const soma_processor_operand* operands,
                                  int32_t count)SOMA_PLUGIN_NOEXCEPT;
  /* An element accessor begins; what it met. */
  int (*open_elements)(soma_processor*, soma_processor_tensor*, int32_t dtype, int32_t rank,
                       int writes) SOMA_PLUGIN_NOEXCEPT;
  void (*bad_index)(soma_processor*, soma_processor_tensor*, int32_t dimension,
                    int64_t index) SOMA_PLUGIN_NOEXCEPT;
  int (*incoherent)(soma_processor*, soma_processor_tensor*) SOMA_PLUGIN_NOEXCEPT;
  soma_processor_stream* (*open_stream)(soma_processor*, soma_processor_tensor*, int32_t dtype,
                                        int writes)SOMA_PLUGIN_NOEXCEPT;
  int (*advance)(soma_processor*, soma_processor_stream*) SOMA_PLUGIN_NOEXCEPT;
  int (*close_stream)(soma_processor*, soma_processor_stream*) SOMA_PLUGIN_NOEXCEPT;
  /* Closes it if it is open, and ends it. */
  void (*end_stream)(soma_processor*, soma_processor_stream*) SOMA_PLUGIN_NOEXCEPT;
  /* The pool of local memory; NULL without an error: it is exhausted. */
  void* (*pool_allocate)(soma_processor*, size_t bytes)SOMA_PLUGIN_NOEXCEPT;
  int (*pool_free)(soma_processor*, void*) SOMA_PLUGIN_NOEXCEPT;
  int (*copy)(soma_processor*, soma_processor_tensor*, int32_t dtype, void* local, uint64_t first,
              uint64_t count, int to_tensor) SOMA_PLUGIN_NOEXCEPT;
  /* The operator's output, with one more reference. */
  soma_processor_tensor* (*output)(soma_processor*)SOMA_PLUGIN_NOEXCEPT;
  void (*print)(soma_processor*, const char* text, size_t bytes) SOMA_PLUGIN_NOEXCEPT;
  /* The library found something that no service can say. */
  void (*refuse)(soma_processor*, const char* what, const char* given,
                 const char* wanted) SOMA_PLUGIN_NOEXCEPT;
} soma_processor_services;

struct soma_processor {
  const soma_processor_services* services;
  uint32_t id, count;   /* id is below count */
  uint32_t prints;      /* whether print() keeps anything */
  uint32_t failed;      /* set by the host with the first thing that goes wrong */
  uint64_t print_calls; /* counted by the library, also where nothing is kept */
  void* host;
};

typedef struct soma_kernel_call {
  const void* state; /* soma_kernel_operator.state */
  soma_processor* processor;
  soma_processor_tensor* const* tensors; /* in the order of the parameters; the host holds a
                                            reference to each */
  const unsigned char* scalars;          /* 8 bytes each, in the order of the parameters */
  soma_processor_tensor* result;         /* set by the kernel, with a reference */
  char* message;                         /* why it does not return 0: text that ends with a zero */
  size_t message_bytes;
} soma_kernel_call;

typedef int (*soma_kernel)(soma_kernel_call* call) SOMA_PLUGIN_NOEXCEPT;

typedef struct soma_kernel_operator {
  size_t struct_bytes;       /* sizeof(soma_kernel_operator) */
  const char* name;          /* "library::operator" */
  const int32_t* parameters; /* enum soma_parameter */
  uint32_t parameter_count;  /* at most 32 tensors and 12 others */
  uint32_t multicore;        /* 1: all processors run it, 0: one */
  soma_kernel shape;         /* makes a tensor of the result's sizes; NULL: its sizes are those
                                   of what the kernel returns */
  soma_kernel kernel;
  const void* state; /* lives as long as the library */
} soma_kernel_operator;

typedef struct soma_registrar soma_registrar;
struct soma_registrar {
  size_t struct_bytes;
  uint32_t version; /* SOMA_PLUGIN_VERSION of the host */
  /* Copies the record. Returns 0, or another number if it is refused: then all are. */
  int (*add)(const soma_registrar* registrar, const soma_operator* op) SOMA_PLUGIN_NOEXCEPT;
  void* host;
  /* Since version 2. The second says why the library cannot be used. */
  int (*add_kernel)(const soma_registrar* registrar,
                    const soma_kernel_operator* op) SOMA_PLUGIN_NOEXCEPT;
  void (*refuse)(const soma_registrar* registrar, const char* reason) SOMA_PLUGIN_NOEXCEPT;
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
