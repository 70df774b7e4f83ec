// Any bytes as a file that may be packed: refused, or the bytes that zlib's own reader finds; the
// same bytes in memory give the same. (UTF-16 becomes UTF-8, which zlib does not know.)

#include <soma/text/byte_source.hpp>

#include "check.hpp"
#include "memory_file.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using soma::text::ByteSource;
  const soma_fuzz::MemoryFile file(data, size);
  std::string all;
  try {
    ByteSource bytes = ByteSource::open("fuzz", file.path());
    constexpr std::size_t most = std::size_t{1} << 24;  // a small file may hold much
    for (auto part = bytes.ahead(); !part.empty() && all.size() < most; part = bytes.ahead()) {
      soma_fuzz::check(part.size() <= ByteSource::buffer_bytes, "no more than a buffer has");
      all.append(part);
      bytes.skip(part.size());
    }
    if (all.size() < most) {
      const std::string_view same(reinterpret_cast<const char*>(data), size);
      soma_fuzz::check(ByteSource::of_file_bytes("fuzz", same, "memory").rest() == all,
                       "in memory the same");
    }
  } catch (const soma::Error&) {
    return 0;
  }
  std::string found(all.size() + 1, '\0');
  gzFile reader = gzopen(file.path().c_str(), "rb");
  soma_fuzz::check(reader != nullptr, "zlib opens it");
  const int count = gzread(reader, found.data(), static_cast<unsigned>(found.size()));
  gzclose(reader);
  if (found.starts_with("\xFF\xFE") || found.starts_with("\xFE\xFF")) return 0;
  soma_fuzz::check(count >= static_cast<int>(all.size()), "zlib finds as many bytes");
  soma_fuzz::check(std::equal(all.begin(), all.end(), found.begin()), "zlib finds the same");
  return 0;
}
