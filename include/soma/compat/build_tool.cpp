// The tool that runs while a library of custom operators is built
// (cmake/soma-custom-operators.cmake). It is linked with the library's shape files.
//
//   TOOL list MULTICORE FOLDER FILE...
//     writes FOLDER/binding_0.cpp ... for the compute files: a unit that includes the file and
//     looks for the kernels that operators name. MULTICORE is 0 or 1
//   TOOL check LIBRARY
//     loads the library; ends with 1, and removes it, where an operator has no kernel that fits

#include <soma/compat/library.hpp>

#include <cstddef>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include <dlfcn.h>

namespace {

using soma_compat::detail::Definition;

bool is_name(const std::string& text) {
  bool good = !text.empty() && (text[0] < '0' || text[0] > '9');
  for (const char c : text)
    good = good &&
           (c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
  return good;
}
// A path for use in quotation marks.
std::string escaped(const std::string& path) {
  std::string result;
  for (const char c : path) {
    if (c == '"' || c == '\\') result.push_back('\\');
    result.push_back(c);
  }
  return result;
}

int complain(const std::string& problems) {
  std::fprintf(stderr, "soma_add_custom_operators:\n%s", problems.c_str());
  return 1;
}

std::string unit(const std::string& file, const std::vector<Definition>& definitions) {
  std::string text = "#include \"" + escaped(file) + "\"\n#include <soma/compat/binding.hpp>\n\n";
  std::set<std::string> there;
  for (const Definition& definition : definitions) {
    if (definition.kernel.empty()) continue;
    const std::string parameters = definition.parameter_text();
    std::string types;
    for (const std::int32_t kind : definition.parameters)
      types.append(kind == SOMA_PARAMETER_TENSOR   ? ", soma_compat::Tensor"
                   : kind == SOMA_PARAMETER_SCALAR ? ", soma_compat::Scalar"
                   : kind == SOMA_PARAMETER_DOUBLE ? ", double"
                                                   : ", std::int64_t");
    const std::string binding = definition.kernel + ", \"" + parameters + "\"" + types + ")\n";
    if (!there.insert(binding).second) continue;
    text += "SOMA_COMPAT_BINDING(" + std::to_string(there.size()) + ", " + binding;
  }
  return text;
}

int list(const std::string& multicore, const std::string& folder, char** files, int count) {
  std::string problems;
  const std::vector<Definition> definitions = soma_compat::detail::collect(problems);
  for (const Definition& definition : definitions) {
    if (!definition.kernel.empty() && !is_name(definition.kernel))
      problems += "operator \"" + definition.name + "\": kernel \"" + definition.kernel +
                  "\" is no name of a function\n";
    if (definition.parameters.empty())
      problems += "operator \"" + definition.name + "\" takes no parameter\n";
  }
  if (!problems.empty()) return complain(problems);
  for (int i = 0; i < count; ++i) {
    const std::string path = folder + "/binding_" + std::to_string(i) + ".cpp";
    std::string text = unit(files[i], definitions);
    if (i == 0)
      text +=
          "extern \"C\" __attribute__((visibility(\"hidden\"))) const unsigned "
          "soma_compat_multicore;\n"
          "const unsigned soma_compat_multicore = " +
          std::string(multicore == "1" ? "1" : "0") + ";\n";
    std::FILE* file = std::fopen(path.c_str(), "w");
    const bool good = file != nullptr && std::fputs(text.c_str(), file) >= 0;
    if (file == nullptr || std::fclose(file) != 0 || !good)
      return complain(path + " cannot be written\n");
  }
  return 0;
}

struct Taken {
  std::string problems;
  std::size_t operators = 0;
};

int check(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return complain(std::string(dlerror()) + "\n");
  const auto* info = static_cast<const soma_plugin_info*>(dlsym(library, "soma_plugin"));
  Taken taken;
  soma_registrar registrar{};
  registrar.struct_bytes = sizeof registrar;
  registrar.version = SOMA_PLUGIN_VERSION;
  registrar.host = &taken;
  registrar.add_kernel = [](const soma_registrar* given, const soma_kernel_operator*) noexcept {
    ++static_cast<Taken*>(given->host)->operators;
    return 0;
  };
  registrar.refuse = [](const soma_registrar* given, const char* reason) noexcept {
    static_cast<Taken*>(given->host)->problems += reason;
  };
  const int status = info == nullptr ? 1 : info->add_operators(&registrar);
  if (status == 0 && taken.operators == 0) taken.problems += "the library has no operators\n";
  if (status != 0 && taken.problems.empty()) taken.problems = "the library cannot be used\n";
  if (taken.problems.empty()) return 0;
  std::remove(path);
  return complain(taken.problems);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int first_file = 4;
  if (argc >= first_file && std::string(argv[1]) == "list")
    return list(argv[2], argv[3], argv + first_file, argc - first_file);
  if (argc == first_file - 1 && std::string(argv[1]) == "check") return check(argv[2]);
  return complain("usage: list MULTICORE FOLDER FILE..., or check LIBRARY\n");
}
