// .npy files: NumPy's own, ours, and every kind of broken one.

#include <soma/io/npy.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "io/reference.inc"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <random>
#include <string>

using namespace soma;
using namespace soma_test;

namespace {

// A file of version 1.0 with that dictionary.
std::string npy(const std::string& dictionary, const std::string& data, char major = 1) {
  const std::size_t size = dictionary.size();
  std::string file = "\x93NUMPY";
  file.push_back(major);
  file.push_back(0);
  file.push_back(static_cast<char>(size & 0xFF));
  file.push_back(static_cast<char>(size >> 8));
  if (major > 1) file.append(2, '\0');
  return file + dictionary + data;
}

std::string dictionary(const std::string& type, const std::string& shape,
                       const std::string& order = "False") {
  return "{'descr': " + type + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

class Files {
 public:
  explicit Files(Context& context) : context_(context) {}
  Tensor load(const std::string& content) {
    write_text(path_, content);
    return load_npy(context_, path_);
  }
  std::string refusal(const std::string& content) {
    std::string text = message_of([&] { load(content); });
    // The folder's name is chance.
    for (std::size_t at; (at = text.find(path_)) != std::string::npos;)
      text.replace(at, path_.size(), "F");
    return text;
  }
  const std::string& path() const { return path_; }

 private:
  Context& context_;
  TemporaryFolder folder_;
  std::string path_ = folder_ / "array.npy";
};

bool same(const Tensor& a, const Tensor& b, Context& context) {
  const Tensor x = contiguous(context, a), y = contiguous(context, b);
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::equal(x.raw(), x.raw() + x.bytes(), y.raw());
}

}  // namespace

TEST_CASE("NumPy's own files are read", "[unit][io][npy]") {
  auto context = make_context();
  Files files(context);
  const Tensor rows = files.load(text_of(reference_npy));
  CHECK(rows.describe() == "[2, 3] fp32");
  CHECK(rows.contiguous());
  for (std::size_t i = 0; i < 6; ++i) CHECK(rows.span<float>()[i] == static_cast<float>(i));
  CHECK_NOTHROW(rows.mutable_raw());

  const Tensor columns = files.load(text_of(reference_npy_fortran));
  CHECK(columns.describe() == "[2, 3, 4] int32");
  CHECK(columns.strides() == Strides{1, 2, 6});
  CHECK(std::ranges::equal(contiguous(context, columns).span<std::int32_t>(),
                           Tensor::from(context, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                                  12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23},
                                        {24})
                               .span<std::int32_t>()));
}

TEST_CASE("what is written is what NumPy writes", "[unit][io][npy]") {
  auto context = make_context();
  Files files(context);
  const Tensor tensor = Tensor::from(context, {0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f}, {2, 3});
  save_npy(files.path(), tensor);
  const std::string file = read_text(files.path());
  CHECK(file == text_of(reference_npy));
  save_npy(files.path(), scattered(context, tensor));
  CHECK(read_text(files.path()) == file);
}

TEST_CASE("every dtype and rank comes back", "[unit][io][npy]") {
  auto context = make_context();
  Files files(context);
  for (const DType dtype :
       {DType::fp32, DType::fp16, DType::int8, DType::uint8, DType::int16, DType::uint16,
        DType::int32, DType::uint32, DType::int64, DType::boolean})
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{5}, Shape{3, 0, 2},
                               Shape{70, 130}, Shape{2, 1, 2, 1, 2, 1, 2, 3}}) {
      CAPTURE(to_string(dtype), to_string(shape));
      const Tensor tensor = counting_bytes(context, shape, dtype);
      save_npy(files.path(), tensor);
      CHECK(read_text(files.path()).size() % 64 == tensor.bytes() % 64);
      CHECK(same(load_npy(context, files.path()), tensor, context));
      save_npy(files.path(), scattered(context, tensor));
      CHECK(same(load_npy(context, files.path()), tensor, context));
    }
}

TEST_CASE("dtypes that NumPy lacks are not written", "[unit][io][npy]") {
  auto context = make_context();
  const TemporaryFolder folder;
  CHECK(message_of([&] { save_npy(folder / "x", Tensor::zeros(context, {2}, DType::bf16)); }) ==
        "save_npy: tensor is [2] bf16, wanted one of fp32 fp16 int8 uint8 int16 uint16 "
        "int32 uint32 int64 bool [npy.dtype]");
  CHECK(id_of([&] { save_npy(folder / "x", Tensor::zeros(context, {2}, DType::tf32)); }) ==
        "npy.dtype");
  CHECK(id_of([&] { save_npy(folder / "x", Tensor()); }) == "tensor.undefined");
  CHECK(id_of([&] { save_npy(folder / "no/x", Tensor::zeros(context, {2})); }) == "file.write");
  CHECK(folder.files() == 0);
}

TEST_CASE("headers may differ in what does not matter", "[unit][io][npy]") {
  auto context = make_context();
  Files files(context);
  const std::string data = "\1\2";
  for (const std::string& header : {
           std::string("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }  \n"),
           std::string("{'shape': (2,), 'descr': '|u1', 'fortran_order': True}"),
           std::string("{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"|u1\"}\n"),
           std::string("{ 'descr' : '|u1' , 'fortran_order' : False , 'shape' : ( 2 , ) , }"),
       })
    for (const char major : {'\1', '\2', '\3'}) {
      CAPTURE(header);
      CHECK(files.load(npy(header, data, major)).describe() == "[2] uint8");
    }
  CHECK(files.load(npy(dictionary("'|u1'", "(1, 2,)"), data)).rank() == 2);
  CHECK(files.load(npy(dictionary("'|u1'", "()"), "\1")).item<std::uint8_t>() == 1);
}

TEST_CASE("broken headers are refused", "[unit][io][npy]") {
  auto context = make_context();
  Files files(context);
  const std::string good = dictionary("'|u1'", "(2,)");
  CHECK(files.refusal("") ==
        "load_npy: file is \"F\", which does not begin with the mark of .npy files, wanted a .npy "
        "file [npy.header]");
  CHECK(files.refusal("\x93NUMPY\x01").find("ends inside its header") != std::string::npos);
  CHECK(files.refusal(npy(good, "ab", 4)).find("has version 4.0") != std::string::npos);
  CHECK(files.refusal(npy(good, "ab", 0)).find("has version 0.0") != std::string::npos);
  std::string longer = npy(good, "ab");
  longer[9] = '\x7F';
  CHECK(files.refusal(longer).find("bytes, more than follow") != std::string::npos);

  for (const std::string& header : {
           std::string(""),
           std::string("{"),
           std::string("{}"),
           std::string("[]"),
           good + "x",
           "x" + good,
           std::string("{'descr': '|u1', 'fortran_order': False}"),
           std::string("{'descr': '|u1', 'shape': (2,)}"),
           std::string("{'fortran_order': False, 'shape': (2,)}"),
           std::string("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), 'x': 1}"),
           std::string("{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (2,)}"),
           std::string("{'descr': '|u1' 'fortran_order': False, 'shape': (2,)}"),
           std::string("{'descr': '|u1, 'fortran_order': False, 'shape': (2,)}"),
           std::string("{descr: '|u1', 'fortran_order': False, 'shape': (2,)}"),
           dictionary("'|u1'", "(2,)", "0"),
           dictionary("'|u1'", "(2,)", "false"),
           dictionary("'|u1'", "(2)"),
           dictionary("'|u1'", "[2]"),
           dictionary("'|u1'", "2"),
           dictionary("'|u1'", "(,)"),
           dictionary("'|u1'", "(1 2)"),
           dictionary("'|u1'", "(-2,)"),
           dictionary("'|u1'", "(2.0,)"),
           dictionary("'|u1'", "(2L,)"),
           dictionary("'|u1'", "(2,"),
           dictionary("'|u1'", "(99999999999999999999,)"),
           dictionary("'|u1'", "(1, 1, 1, 1, 1, 1, 1, 1, 2)"),
           dictionary("'|\\x751'", "(2,)"),
           dictionary("|u1", "(2,)"),
       }) {
    CAPTURE(header);
    CHECK(files.refusal(npy(header, "ab")).find("[npy.header]") != std::string::npos);
  }
}

TEST_CASE("other element types are refused by name", "[unit][io][npy]") {
  auto context = make_context();
  Files files(context);
  CHECK(
      files.refusal(npy(dictionary("'<f8'", "(1,)"), "12345678")) ==
      "load_npy: element type of \"F\" is '<f8', wanted one of '<f4' '<f2' '|i1' '|u1' '<i2' '<u2' "
      "'<i4' '<u4' '<i8' '|b1' [npy.dtype]");
  for (const char* type :
       {"'>f4'", "'<u8'", "'|V2'", "'<c8'", "'|O'", "'<U1'", "''", "'f4'", "[('x', '<f4')]"}) {
    CAPTURE(type);
    CHECK(files.refusal(npy(dictionary(type, "(1,)"), "1234")).find("[npy.dtype]") !=
          std::string::npos);
  }
}

TEST_CASE("data of another size than the shape's are refused", "[unit][io][npy]") {
  auto context = make_context();
  Files files(context);
  CHECK(files.refusal(npy(dictionary("'<f4'", "(2, 3)"), std::string(23, 'x'))) ==
        "load_npy: data of \"F\" is 23 bytes, wanted 24, as its shape says [npy.size]");
  CHECK(
      files.refusal(npy(dictionary("'<f4'", "(2, 3)"), std::string(25, 'x'))).find("[npy.size]") !=
      std::string::npos);
  for (const char* shape : {"(4294967296, 4294967296)", "(18446744073709551615,)",
                            "(0, 4294967296, 4294967296)", "(4611686018427387904,)"}) {
    CAPTURE(shape);
    CHECK(files.refusal(npy(dictionary("'<f4'", shape), "")).find("[npy.size]") !=
          std::string::npos);
  }
  CHECK(files.refusal(npy(dictionary("'|b1'", "(3,)"), std::string("\0\1\2", 3))) ==
        "load_npy: data of \"F\" is a byte above 1, wanted bools, 0 or 1 [npy.value]");
  CHECK(id_of([&] { load_npy(context, files.path() + "no"); }) == "file.read");
  CHECK(context.heap().bytes_in_use() == 0);
}

TEST_CASE("cut and damaged files load or are refused, never more", "[unit][io][npy]") {
  auto context = make_context();
  Files files(context);
  for (const std::string& whole : {text_of(reference_npy), text_of(reference_npy_fortran)}) {
    for (std::size_t size = 0; size < whole.size(); ++size)
      CHECK(files.refusal(whole.substr(0, size)) != "no error");
    std::mt19937 random(11);
    int loaded = 0;
    for (int round = 0; round < 3000; ++round) {
      std::string damaged = whole;
      for (std::size_t flips = 1 + random() % 3; flips-- > 0;)
        damaged[random() % (round % 2 == 0 ? 128 : damaged.size())] ^=
            static_cast<char>(1u << random() % 8);
      try {
        const Tensor tensor = files.load(damaged);
        CHECK(tensor.bytes() <= damaged.size());
        ++loaded;
      } catch (const Error&) {
      }
    }
    CHECK(loaded > 0);
  }
}

TEST_CASE("what a dry run left behind is not saved", "[unit][io][npy]") {
  auto context = make_context();
  Files files(context);
  const Tensor tensor = Tensor::full(context, {2}, 1.0f);
  save_npy(files.path(), tensor);
  context.heap().mark_dry();  // a core that stores zeros instead of results does this
  const std::string wanted =
      ": tensor is [2] fp32 in the context of a dry run, wanted numbers that were computed "
      "[neuroncore.dry_run]";
  CHECK(message_of([&] { save_npy(files.path(), tensor); }) == "save_npy" + wanted);
  StateDict weights;
  weights.set("weight", tensor);
  CHECK(message_of([&] { save_safetensors(files.path(), weights); }) ==
        "save_safetensors" + wanted);
  CHECK(load_npy(context, files.path()).data<float>()[1] == 1);  // the old file stays
}
