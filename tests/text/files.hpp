// Compressed files to read.
#pragma once

#include <string>
#include <string_view>

#include <zlib.h>

namespace soma_test {

inline void write_gzip(const std::string& path, std::string_view text) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

}  // namespace soma_test
