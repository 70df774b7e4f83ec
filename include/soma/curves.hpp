#pragma once
// Curves of a run as a picture (SVG), and a page (HTML) of what it came to. Needs no library, and
// POSIX. It stands beside train.hpp so that units that draw nothing do not pay for it.

#include <soma/train/curves/page.hpp>
#include <soma/train/curves/run_curves.hpp>
