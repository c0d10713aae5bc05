// Boost.JSON is used from its headers alone; this is the one place that compiles it.
#include <boost/json/src.hpp>
