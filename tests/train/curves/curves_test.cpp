// These tests check the curves of a run: that they say what happened in bounded space, that a run
// without a break and one that was resumed draw the same, and that no text leaves its place.

#include <soma/curves.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

using namespace soma;
using namespace soma_test;
using train::RunCurves;
using train::Series;

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

class Folder {
 public:
  Folder() : path_("/tmp/soma_curves." + std::to_string(::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return path_ + "/" + name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}
double value_at(std::uint64_t step) { return static_cast<double>(step * 2654435761u % 1000) / 999; }

}  // namespace

TEST_CASE("text from outside ends no element and is valid UTF-8", "[unit]") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::string harmless = train::markup_text(all);
  CHECK(text::is_utf8(harmless));
  for (const char letter : {'<', '>', '"', '\'', '\0', '\x1b'})
    CHECK(harmless.find(letter) == std::string::npos);
  CHECK(train::markup_text("<a href='b'>&\n") == "&lt;a href=&#39;b&#39;&gt;&amp;\n");
  CHECK(train::markup_text("\xff\x01 \xC3\xA4") == "\xEF\xBF\xBD\xEF\xBF\xBD \xC3\xA4");
  CHECK(train::markup_text("\xC3\xA4\xC3\xA4\xC3\xA4", 2) == "\xC3\xA4\xC3\xA4\xE2\x80\xA6");
  CHECK(train::markup_text("ab", 2) == "ab");
}

TEST_CASE("a series is bounded, keeps all values in its means, and goes on where it was cut",
          "[unit]") {
  constexpr std::uint64_t steps = 7777;
  Series whole;
  for (std::uint64_t step = 1; step <= steps; ++step) whole.add(step, value_at(step));
  CHECK(whole.points().size() <= Series::most_points);
  CHECK(whole.points().size() > Series::most_points / 2 - 2);
  double sum = 0;
  std::uint64_t count = 0, last = 0;
  for (const Series::Point& point : whole.points()) {
    CHECK(point.first == last + 1);
    last = point.last;
    sum += point.sum;
    count += point.count;
    double own = 0;
    for (std::uint64_t step = point.first; step <= point.last; ++step) own += value_at(step);
    CHECK(std::fabs(own - point.sum) <= 1e-12);
  }
  CHECK(last == steps);
  CHECK(count == steps);

  // Killed at step `to`, gone on from `from`: steps in between come twice.
  for (const auto& [from, to] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {10, 10}, {999, 1003}, {1000, 1000}, {2500, 2503}, {4001, 4321}, {7776, 7777}}) {
    Series cut;
    for (std::uint64_t step = 1; step <= to; ++step) cut.add(step, value_at(step));
    Series again = *Series::from_text(cut.to_text());
    CHECK(again.to_text() == cut.to_text());
    again.drop_behind(from);
    for (std::uint64_t step = from + 1; step <= steps; ++step) again.add(step, value_at(step));
    CHECK(again.to_text() == whole.to_text());
  }
}

TEST_CASE("whatever the text of a series is, it is refused or bounded", "[unit]") {
  Series series;
  for (std::uint64_t step = 1; step <= 20; ++step) series.add(step, step == 7 ? no_number : 0.5);
  const std::string text = series.to_text();
  CHECK(std::isnan(Series::from_text(text)->points()[6].mean()));
  for (std::size_t length = 0; length < text.size(); ++length)
    if (const auto read = Series::from_text(std::string_view(text).substr(0, length)))
      CHECK(read->points().size() <= 20);
  for (std::size_t at = 0; at < text.size(); ++at)
    for (const char letter : {'\0', ' ', '-', '9', 'x'}) {
      std::string damaged = text;
      damaged[at] = letter;
      if (const auto read = Series::from_text(damaged)) {
        for (const Series::Point& point : read->points()) CHECK(point.count >= 1);
      }
    }
  for (const char* bad : {"", "0", "x", "1 2", "1 2 1 1 0.5", "1 1 1 2 0.5", "1 1 1 1 1 1 1 1 1",
                          "99999999999999999999999"})
    CHECK_FALSE(Series::from_text(bad));
}

TEST_CASE("a run that is resumed has the picture of a run without a break", "[unit]") {
  auto context = make_context();
  const Folder folder;
  const auto run = [&](const std::string& file, MemoryStore* store, bool resume,
                       std::uint64_t stop_after, bool on_page = false) {
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
    train::TrainerOptions options = options_of();
    options.checkpoints = store;
    options.checkpoint_every = store == nullptr ? 0 : 4;
    options.evaluate_every = 5;
    options.resume = resume;
    train::Trainer trainer(context, small.task, options);
    Follower follower(stop_after);
    RunCurves curves({.file = on_page ? "" : file, .page = on_page ? file : ""});
    trainer.add(follower);
    trainer.add(curves);
    trainer.fit(source, &held_out, &follower.stop);
    CHECK(curves.beginning() == (file.ends_with("lost.svg") && resume ? 13u : 0u));
    return curves.svg();
  };
  const std::string whole = run(folder / "whole.svg", nullptr, false, 0);
  CHECK(content_of(folder / "whole.svg") == whole);
  CHECK(whole.find(">validation<") != std::string::npos);
  CHECK(whole.find(">accuracy<") != std::string::npos);
  CHECK(whole.find(">learning rate<") != std::string::npos);
  {
    MemoryStore store(context);
    run(folder / "cut.svg", &store, false, 13);
    CHECK(content_of(folder / "cut.svg") != whole);
    CHECK(run(folder / "cut.svg", &store, true, 0) == whole);
    CHECK(content_of(folder / "cut.svg") == whole);
  }
  {
    MemoryStore store(context);
    run(folder / "page.html", &store, false, 13, true);
    CHECK(run(folder / "page.html", &store, true, 0, true) == whole);
    CHECK(content_of(folder / "page.html").find(whole) != std::string::npos);
  }
  {  // The picture was lost, or is another file: the curves begin where the run goes on.
    MemoryStore store(context);
    run(folder / "lost.svg", &store, false, 13);
    std::ofstream(folder / "lost.svg") << "<svg>not ours</svg>";
    const std::string rest = run(folder / "lost.svg", &store, true, 0);
    CHECK(rest != whole);
    CHECK(count_of(rest, "<polyline") == count_of(whole, "<polyline"));
  }
  CHECK(folder.files() == 4);  // nothing is left of files that were not whole
}

TEST_CASE("numbers that are not finite are gaps, and no run is too long to draw", "[unit]") {
  RunCurves curves;
  curves.on_start({});
  const auto lines_of = [&] { return count_of(curves.svg(), "stroke-opacity"); };
  for (std::uint64_t step = 1; step <= 30; ++step)
    curves.on_step({.step = step,
                    .loss = step == 10   ? no_number
                            : step == 20 ? -1.0 / 0.0
                                         : 1.0,
                    .learning_rate = 0.1});
  CHECK(lines_of() == 3);
  CHECK(curves.svg().find("nan\"") == std::string::npos);
  CHECK(curves.svg().find("inf,") == std::string::npos);
  for (std::uint64_t step = 31; step <= 300000; ++step)
    curves.on_step({.step = step, .loss = value_at(step) * 1e300, .learning_rate = 1e-300});
  CHECK(curves.find("loss")->points().size() <= Series::most_points);
  CHECK(curves.svg().size() < 300000);

  train::Chart chart{.title = "many"};
  for (std::size_t i = 0; i < 100; ++i) {
    chart.curves.push_back({.name = std::string(100000, '<')});
    for (std::size_t j = 0; j < 5000; ++j)
      chart.curves.back().points.push_back({static_cast<double>(j), value_at(i + j)});
  }
  const std::string many = train::svg_of_charts("many", {chart});
  CHECK(count_of(many, "<polyline") == train::most_curves);
  CHECK(many.size() < 32 * (2000 * 14 + 1000));
  CHECK(train::svg_of_charts("none", {train::Chart{}}).find("no values") != std::string::npos);
}

TEST_CASE("a picture that cannot be written leaves the one that is there", "[unit]") {
  const Folder folder;
  RunCurves curves({.file = folder / "nowhere/a.svg"});
  curves.on_start({});
  CHECK(id_of([&] { curves.write(); }) == "file.write");
  std::filesystem::create_directory(folder / "folder.svg");
  RunCurves other({.file = folder / "folder.svg"});
  other.on_start({});
  CHECK(id_of([&] { other.write(); }) == "file.write");
  CHECK(folder.files() == 1);
}

TEST_CASE("a page holds what it is given, escaped, and asks nobody for anything", "[unit]") {
  train::ReportPage page{.title = "</title><script>alert(1)</script>",
                         .picture = "<svg/>",
                         .results = {{"accuracy", "0.5 <b>"}},
                         .labels = {"good", "<img src=x>"},
                         .confusion = {1, 2, 3, 4}};
  page.wrong.push_back({.text = "less", .expected = "good", .predicted = "bad", .confidence = 0.6});
  page.wrong.push_back({.text = "\xff</td><a href=\"http://x\">&",
                        .pair = "second",
                        .expected = "good",
                        .predicted = "bad",
                        .confidence = 0.9});
  const std::string html = report_page(page);
  CHECK(text::is_utf8(html));
  for (const char* tag : {"<script", "<img", "<a ", "<b>", "href=\"", "src=\"", "url("})
    CHECK(html.find(tag) == std::string::npos);
  CHECK(html.find("default-src 'none'") != std::string::npos);
  CHECK(html.find("0.9000") < html.find("0.6000"));
  CHECK(html.find("second") != std::string::npos);
  CHECK(html.find("<td class=\"n d\">4</td>") != std::string::npos);
  page.confusion.pop_back();
  CHECK(id_of([&] { report_page(page); }) == "csv.size");

  train::ReportPage large;
  constexpr std::size_t classes = 300;
  for (std::size_t i = 0; i < classes; ++i) large.labels.push_back("class " + std::to_string(i));
  large.confusion.assign(classes * classes, 1);
  large.confusion[7 * classes + 9] = 5;
  large.wrong.assign(5000, {.text = std::string(100000, '&'), .confidence = 0.5});
  const std::string bounded = report_page(large);
  CHECK(count_of(bounded, "<tr>") == 1 + train::most_confusions + 1 + train::most_wrong_texts);
  CHECK(bounded.find("<bdi>class 7</bdi></td><td><bdi>class 9</bdi></td><td class=\"n\">5<") !=
        std::string::npos);
  CHECK(bounded.size() < 1000000);

  // The same without a matrix, as of very many classes.
  for (std::size_t i = 0; i < classes; ++i)
    for (std::size_t j = 0; j < classes; ++j)
      large.confusions.push_back({i, j, large.confusion[i * classes + j]});
  large.confusion.clear();
  CHECK(report_page(large) == bounded);
  large.confusions.push_back({classes, 0, 1});
  CHECK(id_of([&] { report_page(large); }) == "csv.size");
}

TEST_CASE("the metric that decides is drawn, and errors have a chart of their own", "[unit]") {
  const Folder folder;
  RunCurves curves({.file = folder / "run.svg"});
  curves.on_start({.best_metric = "f1_4"});
  metrics::Values values;
  for (int i = 0; i < 6; ++i) {
    values.push_back(
        {.name = "f1_" + std::to_string(i), .title = "F1 " + std::to_string(i), .value = 0.1 * i});
    values.push_back({.name = "error_" + std::to_string(i),
                      .title = "error " + std::to_string(i),
                      .value = 10.0 * i,
                      .higher_is_better = false});
  }
  for (const std::uint64_t step : {5u, 10u})
    curves.on_evaluation({.step = step, .values = &values, .loss = 1});
  for (const char* drawn : {"f1_0", "f1_2", "f1_4", "error_0", "error_2"})
    CHECK(curves.find(std::string("held_out/") + drawn) != nullptr);
  for (const char* left_out : {"f1_3", "f1_5", "error_3", "error_4"})
    CHECK(curves.find(std::string("held_out/") + left_out) == nullptr);
  CHECK(curves.find("held_out/error_2")->points().back().mean() == 20);
  const std::string picture = curves.svg();
  CHECK(picture.find(">errors<") != std::string::npos);
  // The chart that a curve belongs to is in the file.
  RunCurves resumed({.file = folder / "run.svg"});
  resumed.on_start({.first_step = 10, .best_metric = "f1_4"});
  CHECK(resumed.svg() == picture);
}
