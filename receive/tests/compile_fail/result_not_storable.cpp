// error: the Result of a pipeline is stored: specialise oncebox::ResultCodec

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Receipt {};

struct Declared {
  using Payload = std::string;
  using Result = Receipt;
  Result handle(const Payload& payload);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
