#include "src/workload/load/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/core/error.h"

namespace teller::load {
namespace {

using testing::ElementsAre;

/// Events of `text`, fed in pieces of `size` bytes.
std::vector<std::string> Events(std::string_view text, std::size_t size) {
  std::vector<std::string> events;
  EventStreamParser parser([&](std::string_view data) { events.emplace_back(data); });
  for (std::size_t at = 0; at < text.size(); at += size) parser.Feed(text.substr(at, size));
  return events;
}

TEST(EventStreamTest, ParsesEventsWhateverThePieces) {
  const std::string text =
      "data: {\"a\":1}\n\n: comment\nevent: x\ndata:two\ndata: three\r\n\r\n\n\ndata: [DONE]\n\n";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    EXPECT_THAT(Events(text, size), ElementsAre("{\"a\":1}", "two\nthree", "[DONE]")) << size;
  }
}

TEST(EventStreamTest, AnEventWithoutItsEmptyLineIsNotOver) {
  EXPECT_TRUE(Events("data: cut off", 100).empty());
  EXPECT_THAT(Events("data:\n\n", 100), ElementsAre(""));
}

TEST(EventStreamTest, RefusesEndlessEvents) {
  EventStreamParser parser([](std::string_view) {});
  const std::string piece(1 << 16, 'x');
  EXPECT_THROW(for (int i = 0; i < 20; ++i) parser.Feed(piece), DataError);
}

}  // namespace
}  // namespace teller::load
