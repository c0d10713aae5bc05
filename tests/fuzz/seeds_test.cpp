// The seeds of the fuzz target `bodies` are what they say, so that the fuzzer begins behind the
// first checks of every reader.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "bodies.hpp"
#include "oncebox/error.hpp"

namespace oncebox::fuzz {
namespace {

struct Seed {
  std::string file;
  std::string body;  ///< the name of its kind
  std::string text;
};

std::vector<Seed> seeds_of_bodies() {
  std::vector<Seed> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(ONCEBOX_FUZZ_SEEDS "/bodies")) {
    std::ifstream file(entry.path(), std::ios::binary);
    Seed seed{.file = entry.path().filename().string(), .body = {}, .text = {}};
    std::getline(file, seed.body);
    seed.text.assign(std::istreambuf_iterator<char>(file), {});
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

void expect_right(const Seed& seed) {
  SCOPED_TRACE(seed.file);
  const Body* const body = find_body(seed.body);
  ASSERT_NE(body, nullptr) << "its first line names no kind of body";
  if (seed.file.starts_with("refused_")) {
    EXPECT_THROW((void)body->rewrite(seed.text), Error);
    return;
  }
  std::string written;
  ASSERT_NO_THROW(written = body->rewrite(seed.text));
  if (written.empty()) return;
  EXPECT_EQ(body->rewrite(written), written);
}

TEST(FuzzSeeds, OfBodiesAreReadUnlessTheirNameSaysThatTheyAreRefused) {
  for (const Seed& seed : seeds_of_bodies()) expect_right(seed);
}

TEST(FuzzSeeds, EveryKindOfBodyHasOne) {
  std::set<std::string, std::less<>> seeded;
  for (const Seed& seed : seeds_of_bodies()) seeded.insert(seed.body);
  for (const Body& body : bodies()) EXPECT_TRUE(seeded.contains(body.name)) << body.name;
}

}  // namespace
}  // namespace oncebox::fuzz
