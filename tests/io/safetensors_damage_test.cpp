// safetensors files that are wrong: each kind by its message, and many by chance.

#include <soma/io/safetensors.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "io/reference.inc"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <random>
#include <string>

using namespace soma;
using namespace soma_test;

namespace {

std::string with_length(const std::string& header, const std::string& data, std::uint64_t length) {
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}
std::string file_of(const std::string& header, std::size_t data) {
  return with_length(header, std::string(data, '\0'), header.size());
}

class Loader {
 public:
  SafetensorsFile load(const std::string& content) {
    return load_safetensors(context_, std::as_bytes(std::span(content)), nullptr);
  }
  std::string refusal(const std::string& content) {
    return message_of([&] { load(content); });
  }

 private:
  Context context_ = make_context();
};

constexpr const char* good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

}  // namespace

TEST_CASE("lengths of headers are not trusted", "[unit][io][safetensors]") {
  Loader loader;
  CHECK(loader.refusal("") ==
        "load_safetensors: file is \"memory\", which is shorter than the 8 bytes of a length, "
        "wanted a safetensors file [safetensors.header]");
  CHECK(loader.refusal("1234567").find("shorter than") != std::string::npos);
  CHECK(loader.refusal(with_length("{}", "", 3)) ==
        "load_safetensors: file is \"memory\", which says that its header has 3 bytes, more than "
        "follow, wanted a safetensors file [safetensors.header]");
  CHECK(loader.refusal(with_length("{}", "", ~std::uint64_t{0})).find("more than the limit") !=
        std::string::npos);
  CHECK(loader.refusal(with_length("{}", "", 100000001)).find("more than the limit of 100000000") !=
        std::string::npos);
  CHECK(loader.refusal(with_length("{}", "", 100000000)).find("more than follow") !=
        std::string::npos);
  CHECK(loader.refusal(with_length("", "", 0)).find("does not begin with '{'") !=
        std::string::npos);
  CHECK(loader.load(file_of(good, 8)).at("a").elements() == 2);
}

TEST_CASE("headers are the JSON of the specification and nothing else", "[unit][io][safetensors]") {
  Loader loader;
  const auto refused = [&](const std::string& header, const std::string& why) {
    CAPTURE(header);
    CHECK(loader.refusal(file_of(header, 8))
              .find(why + ", wanted a safetensors file "
                          "[safetensors.header]") != std::string::npos);
  };
  const std::string text = good;
  refused(" " + text, "does not begin with '{'");
  refused("[]", "does not begin with '{'");
  refused("{", "is no JSON at byte 2");
  refused(text + "x", "is no JSON at byte 55");
  refused(text + std::string(1, '\0'), "has a zero byte");
  refused(text + std::string(1, '\0') + "x", "has a zero byte");
  refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},})", "is no JSON at byte 55");
  refused("{\"\xFF\":{}}", "is no JSON at byte 3");
  refused(R"({"a":1})", "has a number where none belongs");
  refused(R"({"a":"x"})", "has a text where none belongs");
  refused(R"({"a":[1]})", "has a list where none belongs");
  refused(R"({"a":null})", "has a null");
  refused(R"({"a":true})", "has a true or false");
  refused(R"({"a":{}})", "has a tensor without dtype, shape or data_offsets");
  refused(R"({"a":{"dtype":"F32","shape":[2]}})", "without dtype, shape or data_offsets");
  refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})",
          "has a tensor with an unknown field, or with one twice");
  refused(R"({"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})",
          "has a tensor with an unknown field, or with one twice");
  refused(R"({"a":{"dtype":5,"shape":[2],"data_offsets":[0,8]}})",
          "has a number where none belongs");
  refused(R"({"a":{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}})",
          "has a list where none belongs");
  refused(R"({"a":{"dtype":{},"shape":[2],"data_offsets":[0,8]}})",
          "has an object where none belongs");
  refused(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})",
          "has a number where none belongs");
  refused(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})",
          "has a list where none belongs");
  refused(R"({"a":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})",
          "has a text where none belongs");
  refused(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "has a negative number");
  refused(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})",
          "has a number that is no integer below 2^64");
  refused(R"({"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8]}})",
          "has a number that is no integer below 2^64");
  refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})",
          "has data_offsets that are not two numbers");
  refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})",
          "has data_offsets that are not two numbers");
  refused(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
          R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
          "has a name twice");
  refused(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
          R"("\u0061":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
          "has a name twice");
  refused(R"({"__metadata__":{"k":"1","k":"1"}})", "has a key of __metadata__ twice");
  refused(R"({"__metadata__":{},"__metadata__":{}})", "has __metadata__ twice");
  refused(R"({"__metadata__":{"k":1}})", "has a number where none belongs");
  refused(R"({"__metadata__":{"k":{}}})", "has an object where none belongs");
  refused(R"({"__metadata__":{"k":[]}})", "has a list where none belongs");
  refused(R"({"__metadata__":"k"})", "has a text where none belongs");
  refused(R"({"__metadata__":[]})", "has a list where none belongs");
  refused("{\"a\":" + std::string(100000, '['), "has a list where none belongs");

  const std::string padded = text + "   \n";
  CHECK(loader.load(file_of(padded, 8)).tensors.size() == 1);
  CHECK(loader.load(file_of(R"({"__metadata__":{}})", 0)).metadata.empty());
  CHECK(loader
            .load(file_of(R"({ "a" : { "shape" : [ ] , "data_offsets" : [ 0 , 4 ] ,)"
                          R"( "dtype" : "F32" } })",
                          4))
            .at("a")
            .rank() == 0);
}

TEST_CASE("data lie without holes and overlaps, as large as their shapes say",
          "[unit][io][safetensors]") {
  Loader loader;
  const auto tensor = [](const std::string& name, const std::string& dtype,
                         const std::string& shape, const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
           "],\"data_offsets\":[" + offsets + "]}";
  };
  const auto refusal = [&](const std::string& tensors, std::size_t data) {
    return loader.refusal(file_of("{" + tensors + "}", data));
  };
  CHECK(refusal(tensor("a", "F32", "2", "0,8"), 9) ==
        "load_safetensors: data of \"memory\" is 9 bytes, wanted 8, where its last tensor ends "
        "[safetensors.size]");
  CHECK(refusal("", 1).find("wanted 0, where its last tensor ends") != std::string::npos);
  CHECK(refusal(tensor("a", "F32", "2", "0,8"), 7) ==
        "load_safetensors: \"a\" in \"memory\" is data from 0 to 8, wanted from 0, where the one "
        "before ends, to at most 7 [safetensors.size]");
  CHECK(refusal(tensor("a", "F32", "3", "0,8"), 8) ==
        "load_safetensors: \"a\" in \"memory\" is 8 bytes of data, wanted 96 bits, as its shape "
        "says [safetensors.size]");
  for (const std::string& tensors : {
           tensor("a", "F32", "2", "1,9"),
           tensor("a", "F32", "2", "8,0"),
           tensor("a", "F32", "2", "0,18446744073709551615"),
           tensor("a", "F32", "2", "18446744073709551608,18446744073709551615"),
           tensor("a", "U8", "4", "0,4") + "," + tensor("b", "U8", "3", "5,8"),
           tensor("a", "U8", "4", "0,4") + "," + tensor("b", "U8", "5", "3,8"),
           tensor("a", "U8", "8", "0,8") + "," + tensor("b", "U8", "8", "0,8"),
           tensor("a", "U8", "8", "0,8") + "," + tensor("b", "U8", "0", "3,3"),
           tensor("a", "F32", "4294967296,4294967296", "0,8"),
           tensor("a", "F32", "0,4294967296,4294967296", "0,8"),
           tensor("a", "F32", "4611686018427387906", "0,8"),
           tensor("a", "F64", "2", "0,8"),
           tensor("a", "F4", "15", "0,8"),
           tensor("a", "U8", "1,1,1,1,1,1,1,1,7", "0,8"),
       }) {
    CAPTURE(tensors);
    CHECK(refusal(tensors, 8).find("[safetensors.size]") != std::string::npos);
  }
  // In any order, and empty ones anywhere between.
  CHECK(loader
            .load(file_of("{" + tensor("b", "U8", "4", "4,8") + "," +
                              tensor("a", "U8", "4", "0,4") + "," + tensor("c", "U8", "0", "4,4") +
                              "," + tensor("d", "U8", "5,0", "8,8") + "}",
                          8))
            .tensors.size() == 4);
  const std::string flags = "{" + tensor("a", "BOOL", "2", "0,2") + "}";
  CHECK(loader.refusal(with_length(flags, "\1\2", flags.size())) ==
        "load_safetensors: \"a\" in \"memory\" is a byte above 1, wanted bools, 0 or 1 "
        "[safetensors.value]");
}

TEST_CASE("a cut file is refused wherever it is cut", "[unit][io][safetensors]") {
  Loader loader;
  const std::string whole = text_of(reference_safetensors);
  CHECK(loader.refusal(whole) == "no error");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(loader.refusal(whole.substr(0, size)).find("[safetensors.") != std::string::npos);
  }
}

TEST_CASE("damaged files load or are refused, never more", "[unit][io][safetensors]") {
  Loader loader;
  const std::string whole = text_of(reference_safetensors);
  std::mt19937 random(3);
  int loaded = 0;
  std::uint64_t sum = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = whole;
    for (std::size_t flips = 1 + random() % 3; flips-- > 0;)
      damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
    if (round % 5 == 0) damaged.erase(random() % damaged.size(), random() % 4);
    if (round % 7 == 0) {
      const std::size_t from = random() % damaged.size();
      damaged.insert(random() % damaged.size(), damaged.substr(from, random() % 60));
    }
    try {
      const SafetensorsFile file = loader.load(damaged);
      // Every byte that a tensor claims can be read.
      for (const auto& [name, tensor] : file.tensors)
        for (std::size_t i = 0; i < tensor.bytes(); ++i)
          sum += static_cast<std::uint64_t>(tensor.raw()[i]);
      ++loaded;
    } catch (const Error&) {
    }
  }
  CHECK(sum > 0);
  CHECK(loaded > 100);
}
