// Unpacks the body of a request with Content-Encoding: gzip.
#pragma once

#include "bert_classifier/serve/texts.hpp"

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>
#include <string_view>

#include <zlib.h>

namespace bodies {

// The data of gzip members one behind the other, at most `most` bytes and one more, which shows
// that there are too many. Error serve.body: damaged, cut short, or something else behind it.
inline std::string unpack_gzip(std::string_view packed, std::size_t most) {
  struct Stream : z_stream {
    // 16: gzip around the data, nothing else.
    Stream() : z_stream{}, started(inflateInit2(this, MAX_WBITS + 16) == Z_OK) {}
    ~Stream() {
      if (started) inflateEnd(this);
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    bool started;
  } stream;
  constexpr std::string_view wanted = "whole gzip data, as its Content-Encoding says";
  if (!stream.started) throw std::bad_alloc();
  std::string data;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());  // at most --max-body, 1 GiB
  for (int result = Z_OK; data.size() <= most;) {
    if (stream.avail_in == 0 && result == Z_STREAM_END) break;
    if (result == Z_STREAM_END && inflateReset(&stream) != Z_OK) refuse("no gzip data", wanted);
    char piece[16384];
    stream.next_out = reinterpret_cast<Bytef*>(piece);
    stream.avail_out = static_cast<uInt>(sizeof piece);
    result = inflate(&stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_BUF_ERROR) refuse("gzip data that is cut short", wanted);
    if (result != Z_OK && result != Z_STREAM_END) refuse("no gzip data", wanted);
    data.append(piece, (std::min)(sizeof piece - stream.avail_out, most + 1 - data.size()));
  }
  return data;
}

}  // namespace bodies
