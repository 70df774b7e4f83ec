// printf() of kernels, and the functions that compilers replace it with: the text goes to the
// processor. Compiled into each library of custom operators with hidden visibility, so that only
// calls of this library end here. (The functions have other names in C++, because compilers know
// functions of those names.)

#include <soma/plugin.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" __attribute__((visibility("hidden"))) soma_processor* soma_compat_processor();

namespace {

// Outside of a kernel the text goes to the standard output, as usual.
int print(const char* format, va_list arguments) {
  soma_processor* processor = soma_compat_processor();
  if (processor == nullptr) return vfprintf(stdout, format, arguments);
  ++processor->print_calls;
  if (processor->prints == 0) return 0;
  va_list again;
  va_copy(again, arguments);
  char text[1024];
  const int length = vsnprintf(text, sizeof text, format, arguments);
  if (length > 0) {
    const auto bytes = static_cast<size_t>(length);
    auto* longer = bytes < sizeof text ? nullptr : static_cast<char*>(malloc(bytes + 1));
    if (longer != nullptr) vsnprintf(longer, bytes + 1, format, again);
    processor->services->print(processor, longer != nullptr ? longer : text,
                               longer != nullptr || bytes < sizeof text ? bytes : sizeof text - 1);
    free(longer);
  }
  va_end(again);
  return length;
}
int print_formatted(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = print(format, arguments);
  va_end(arguments);
  return length;
}

}  // namespace

#define SOMA_COMPAT_CALLED(symbol) __asm__(symbol) __attribute__((visibility("hidden"), used))
extern "C" {
int soma_compat_vprintf(const char*, va_list) SOMA_COMPAT_CALLED("vprintf");
int soma_compat_vprintf_checked(int, const char*, va_list) SOMA_COMPAT_CALLED("__vprintf_chk");
int soma_compat_printf(const char*, ...) SOMA_COMPAT_CALLED("printf");
int soma_compat_printf_checked(int, const char*, ...) SOMA_COMPAT_CALLED("__printf_chk");
int soma_compat_puts(const char*) SOMA_COMPAT_CALLED("puts");
int soma_compat_putchar(int) SOMA_COMPAT_CALLED("putchar");
int soma_compat_putc(int, FILE*) SOMA_COMPAT_CALLED("putc");

int soma_compat_vprintf(const char* format, va_list arguments) { return print(format, arguments); }
int soma_compat_vprintf_checked(int, const char* format, va_list arguments) {
  return print(format, arguments);
}
int soma_compat_printf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = print(format, arguments);
  va_end(arguments);
  return length;
}
int soma_compat_printf_checked(int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = print(format, arguments);
  va_end(arguments);
  return length;
}
int soma_compat_puts(const char* text) { return print_formatted("%s\n", text); }
int soma_compat_putchar(int letter) {
  print_formatted("%c", letter);
  return letter;
}
int soma_compat_putc(int letter, FILE* file) {
  return file == stdout ? soma_compat_putchar(letter) : fputc(letter, file);
}
}
