"""Conan 2 recipe of soma from this checkout: the headers and the library with the kernels of every instruction set.

    conan create conan -pr:a conan/profiles/debian12 --no-remote              with Debian's libraries (or debian13)
    conan create conan -s compiler.cppstd=20 --build=missing                  with those of ConanCenter
    (-o '&:with_io=True' -o '&:with_text=True' for programs that use soma::io, soma::text or soma::models)

packaging/release.py makes the recipe of a central index from this one.
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

# Ranges, so that [platform_requires] of a profile can stand in for them. The header of the library that each option
# brings in is <soma/xtensor.hpp>, <soma/io.hpp>, <soma/text.hpp>, ...
CORE = {"highway": "[>=1.0.3 <2]", "ms-gsl": "[>=4.0.0 <6]"}
BEHIND = {
    "xtensor": {"xtensor": "[>=0.24.3 <0.28]"},
    "io": {"nlohmann_json": "[>=3.10 <4]", "xxhash": "[>=0.8.0 <1]"},
    "text": {"nlohmann_json": "[>=3.10 <4]", "utf8proc": "[>=2.6 <3]", "zlib": "[>=1.2.11 <2]"},
    "tensorboard": {"protozero": "[>=1.7 <2]"},
    "images": {"libpng": "[>=1.6.37 <2]", "libjpeg-turbo": "[>=2.1 <4]"},
    "mpi": {"openmpi": "[>=4 <6]"},
}
# Components of the packages, where a package has more than what is needed, and what a program links where the
# library is the system's.
TARGETS = {"highway": "highway::hwy", "ms-gsl": "ms-gsl::_ms-gsl", "xxhash": "xxhash::libxxhash",
           "libjpeg-turbo": "libjpeg-turbo::jpeg"}
SYSTEM_LIBRARIES = {"highway": ["hwy"], "utf8proc": ["utf8proc"], "zlib": ["z"], "libpng": ["png"],
                    "libjpeg-turbo": ["jpeg"]}
# Parts with a compiled half (libsoma_io, ...), where there is a library.
COMPILED = ("io", "text")
CUSTOM_OPERATORS = "soma-custom-operators.cmake"


class SomaConan(ConanFile):
    name = "soma"
    description = "C++20 training kernels for CPUs, with exact small float formats"
    license = "Apache-2.0"
    topics = ("machine-learning", "training", "simd", "floating-point", "deep-learning")
    package_type = "library"
    implements = ["auto_shared_fpic", "auto_header_only"]
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
        # header_only: no compiled library at all; a program's own flags choose the instruction set.
        "header_only": [True, False],
        "with_dispatch": [True, False],
        # Instruction sets of the compiled library by Highway's names, such as "AVX2,AVX3".
        "targets": ["all", "ANY"],
        **{f"with_{part}": [True, False] for part in BEHIND},
    }
    default_options = {
        "shared": False,
        "fPIC": True,
        "header_only": False,
        "with_dispatch": True,
        "targets": "all",
        "with_xtensor": True,
        "with_io": False,
        "with_text": False,
        "with_tensorboard": False,
        "with_images": False,
        "with_mpi": False,
    }
    no_copy_source = True

    # Where the sources come from: this checkout.
    def set_version(self):
        # The header is the only place that says the version.
        header = load(self, os.path.join(self.recipe_folder, "..", "include/soma/base/version.hpp"))
        parts = [
            re.search(rf"#define SOMA_VERSION_{part} +(\d+)", header).group(1)
            for part in ("MAJOR", "MINOR", "PATCH")
        ]
        self.version = ".".join(parts)

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..")
        for pattern in ("include/*.hpp", "include/*.ipp", "include/*.h", "include/*.cpp", "cmake/*", "LICENSE", "CMakeLists.txt"):
            copy(self, pattern, root, self.export_sources_folder)

    def layout(self):
        # The recipe is in conan/, what it packages is beside that folder.
        self.folders.root = ".."
        cmake_layout(self, build_folder="build/conan")

    # The rest holds for every source.
    @property
    def _compiled(self):
        return not self.options.header_only and bool(self.options.get_safe("with_dispatch"))

    def _parts(self):
        return [part for part in BEHIND if self.options.get_safe(f"with_{part}")]

    def configure(self):
        if self.options.header_only:
            self.options.rm_safe("with_dispatch")
        if not self._compiled:
            for option in ("shared", "fPIC", "targets"):
                self.options.rm_safe(option)
        elif self.options.shared:
            self.options.rm_safe("fPIC")

    def requirements(self):
        wanted = dict(CORE)
        for part in self._parts():
            wanted.update(BEHIND[part])
        for name, version in wanted.items():
            self.requires(f"{name}/{version}", transitive_headers=True, transitive_libs=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        # The headers are the same for every program, and so are the libraries, whichever other libraries come along.
        if self.info.options.header_only or not self.info.options.get_safe("with_dispatch"):
            self.info.clear()
            return
        compiled = {package for part in COMPILED for package in BEHIND[part]}
        for part, packages in BEHIND.items():
            if part not in COMPILED:
                self.info.options.rm_safe(f"with_{part}")
                self.info.requires.remove(*((set(packages) - compiled) & set(self.info.requires.pkg_names)))

    def generate(self):
        # ConanCenter calls the package "highway"; its own CMake files, and ours, say hwy::hwy.
        deps = CMakeDeps(self)
        deps.set_property("highway", "cmake_file_name", "hwy")
        deps.set_property("highway::hwy", "cmake_target_name", "hwy::hwy")
        deps.generate()
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # nothing is written beside the sources
        for name in ("TESTS", "EXAMPLES", "BENCHMARKS", "FUZZERS"):
            toolchain.cache_variables[f"SOMA_BUILD_{name}"] = False
        toolchain.cache_variables["SOMA_BUILD_DISPATCH"] = self._compiled
        if self._compiled and self.options.targets != "all":
            toolchain.cache_variables["SOMA_TARGETS"] = str(self.options.targets).replace(",", ";")
        for part in BEHIND:  # the CMake targets of these are declared below, in package_info()
            compiled = self._compiled and part in COMPILED and part in self._parts()
            toolchain.cache_variables[f"SOMA_WITH_{part.upper()}"] = "ON" if compiled else "OFF"
        toolchain.generate()

    def build(self):
        if self._compiled:
            cmake = CMake(self)
            cmake.configure()
            cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        if self._compiled:
            CMake(self).install()
            for folder in ("share", "lib/pkgconfig", "lib/cps"):
                rmdir(self, os.path.join(self.package_folder, folder))
        else:
            for pattern in ("*.hpp", "*.ipp", "*.h", "*.cpp"):
                copy(self, pattern, os.path.join(self.source_folder, "include"),
                     os.path.join(self.package_folder, "include"))
        # soma_add_custom_operators(), which looks for the headers beside its folder.
        copy(self, CUSTOM_OPERATORS, os.path.join(self.source_folder, "cmake"), os.path.join(self.package_folder, "cmake"))

    def _component(self, name, behind=(), requires=()):
        """A component with a target of CMake's own package: soma::<name>."""
        component = self.cpp_info.components[name]
        component.bindirs = []
        component.libdirs = []
        component.set_property("cmake_target_name", f"soma::{name}")
        component.set_property("pkg_config_name", "soma" if name == "soma" else f"soma-{name}")
        component.requires = list(requires)
        found = {dependency.ref.name for dependency in self.dependencies.host.values()}
        for package in behind:
            if package in found:
                component.requires.append(TARGETS.get(package, f"{package}::{package}"))
            else:  # [platform_requires]: the system's library
                component.system_libs.extend(SYSTEM_LIBRARIES.get(package, []))
        return component

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "soma")
        self.cpp_info.set_property("cmake_build_modules", [os.path.join("cmake", CUSTOM_OPERATORS)])
        core = self._component("soma", CORE)
        if self.settings.get_safe("os") in ("Linux", "FreeBSD"):
            core.system_libs.append("pthread")
        if self._compiled:
            dispatch = self._component("dispatch", requires=["soma"])
            dispatch.libdirs = ["lib"]
            dispatch.libs = ["soma_dispatch"]
            dispatch.defines = ["SOMA_DISPATCH=1"]
        for part in self._parts():
            self._with_half(part, part in COMPILED, self._component(part, BEHIND[part], ["soma"]))
        if set(COMPILED) <= set(self._parts()):
            self._with_half("models", True, self._component("models", requires=list(COMPILED)))

    def _with_half(self, part, compiled, component):
        if compiled and self._compiled:
            component.libdirs = ["lib"]
            component.libs = [f"soma_{part}"]
            component.requires.append("dispatch")
