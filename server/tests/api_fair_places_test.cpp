#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/fair_places.hpp"

namespace oncebox::server {

namespace {

Request request_by(const std::string& principal, const std::string& peer = "192.0.2.1") {
  Request request{.path = "/", .peer = peer};
  request.principal.name = principal;
  return request;
}

std::vector<FairPlaces::Place> take_all(FairPlaces& places, const Request& request,
                                        std::size_t kept = 0) {
  std::vector<FairPlaces::Place> taken;
  for (;;) {
    FairPlaces::Place place = places.take(request, kept);
    if (!place.is_taken()) return taken;
    taken.push_back(std::move(place));
  }
}

TEST(FairPlacesTest, ACallerGetsAPlaceWhileMoreAreFreeThanItHolds) {
  FairPlaces places(64);
  const auto greedy = take_all(places, request_by("greedy"));
  EXPECT_EQ(greedy.size(), 32U);
  const auto next = take_all(places, request_by("next"));
  EXPECT_EQ(next.size(), 16U);
  EXPECT_TRUE(places.take(request_by("late")).is_taken());
}

TEST(FairPlacesTest, APlaceIsGivenBackOnce) {
  FairPlaces places(2);
  FairPlaces::Place first = places.take(request_by("a"));
  FairPlaces::Place moved = std::move(first);
  EXPECT_FALSE(places.take(request_by("a")).is_taken());
  moved.leave();
  moved.leave();
  EXPECT_FALSE(moved.is_taken());
  moved = places.take(request_by("a"));
  moved = FairPlaces::Place();
  EXPECT_EQ(take_all(places, request_by("a")).size(), 1U);
}

TEST(FairPlacesTest, WhatIsKeptForOthersDoesNotCountAsFree) {
  FairPlaces places(12);
  const auto taken = take_all(places, request_by("a"), 4);
  EXPECT_EQ(taken.size(), 4U);
  EXPECT_FALSE(places.take(request_by("b"), 8).is_taken());
  EXPECT_TRUE(places.take(request_by("a")).is_taken());
}

TEST(FairPlacesTest, WithoutATokenANetworkIsACaller) {
  FairPlaces places(4);
  const auto taken = take_all(places, request_by("anonymous", "2001:db8:0:1::1"));
  EXPECT_EQ(taken.size(), 2U);
  EXPECT_FALSE(places.take(request_by("anonymous", "2001:db8:0:1::2")).is_taken());
  EXPECT_TRUE(places.take(request_by("anonymous", "2001:db8:0:2::1")).is_taken());
  EXPECT_TRUE(places.take(request_by("token", "2001:db8:0:1::1")).is_taken());
}

TEST(FairPlacesTest, PlacesThatManyCallersHaveGivenBackAreThereAgain) {
  FairPlaces places(100);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&places, thread] {
      for (int i = 0; i < 1'000; ++i) {
        const std::string name = std::to_string(thread) + " " + std::to_string(i % 300);
        EXPECT_TRUE(places.take(request_by(name)).is_taken());
      }
    });
  }
  threads.clear();
  EXPECT_EQ(take_all(places, request_by("a")).size(), 50U);
}

}  // namespace

}  // namespace oncebox::server
